#!lua flags=allow-oom
-- Takes a lock, or keeps it for the same token: what the clock shows then; 0 where another has it. One that would be held
-- for longer than anyone takes it for was taken before the clock was set back.
local name, token, hold_ms = unpack(ARGV, 2, 4)
local lock = prefix .. 'lock:' .. name
local holder = redis.call('GET', lock)
if holder and holder ~= token and redis.call('PTTL', lock) <= tonumber(hold_ms) then
  return 0
end
redis.call('SET', lock, token, 'PX', hold_ms)
return int(now())
