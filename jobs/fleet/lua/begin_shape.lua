#!lua
-- Marks a shape as tried, before it is measured: 1 for the one process that is to measure it.
local model, max_shapes, ttl, shape = unpack(ARGV, 2, 5)
redis.call('ZREM', wanted(model), shape)
if redis.call('HEXISTS', measured(model), shape) == 1 then
  return 0
end
keep(model, max_shapes, ttl, shape, '')
return 1
