#!lua
-- A shape that was begun and not measured is wanted again.
local model, shape = unpack(ARGV, 2, 3)
if redis.call('HGET', measured(model), shape) == '' then
  redis.call('HDEL', measured(model), shape)
  redis.call('ZREM', ages(model), shape)
  redis.call('ZADD', wanted(model), int(now()), shape)
end
