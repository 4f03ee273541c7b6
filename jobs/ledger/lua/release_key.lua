#!lua flags=allow-oom
-- Lets go of an Idempotency-Key, if this holder still has it.
local digest, holder = unpack(ARGV, 2, 3)
local hold = prefix .. 'hold:' .. digest
if redis.call('GET', hold) == holder then
  redis.call('DEL', hold)
end
