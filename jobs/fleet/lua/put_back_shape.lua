#!lua
-- A shape that was begun and not measured is wanted again, also by a Redis that has lost its data meanwhile.
local model, max_shapes, ttl, shape = unpack(ARGV, 2, 5)
if redis.call('HSTRLEN', measured(model), shape) == 0 then
  redis.call('HDEL', measured(model), shape)
  redis.call('ZREM', ages(model), shape)
  want(model, max_shapes, ttl, { shape })
end
