#!lua flags=allow-oom
-- Takes a lock, or keeps it for the same token: what the clock shows then; 0 where another has it.
local name, token, hold_ms = unpack(ARGV, 2, 4)
local lock = prefix .. 'lock:' .. name
local holder = redis.call('GET', lock)
if holder and holder ~= token then
  return 0
end
redis.call('SET', lock, token, 'PX', hold_ms)
return int(now())
