#!lua
-- Takes or renews an Idempotency-Key for a request under way; the id of the job bound to it, if any. A hold that would last
-- for longer than anyone takes it for was taken before the clock was set back.
local digest, holder, hold_ms = unpack(ARGV, 2, 4)
local hold = prefix .. 'hold:' .. digest
local other = redis.call('GET', hold)
if other and other ~= holder and redis.call('PTTL', hold) <= tonumber(hold_ms) then
  return {'in_use'}
end
redis.call('SET', hold, holder, 'PX', hold_ms)
return {'held', redis.call('HGET', prefix .. 'idem:' .. digest, 'job')}
