#!lua flags=allow-oom
local name, token = unpack(ARGV, 2, 3)
local lock = prefix .. 'lock:' .. name
if redis.call('GET', lock) == token then
  redis.call('DEL', lock)
end
