#!lua
-- Shapes asked for, to be measured when there is time; those that were tried are left out, the oldest beyond the bound go.
local model, max_shapes, ttl = unpack(ARGV, 2, 4)
local tried, list = measured(model), wanted(model)
for position = 5, #ARGV do
  if redis.call('HEXISTS', tried, ARGV[position]) == 0 then
    redis.call('ZADD', list, 'NX', int(now()), ARGV[position])
  end
end
redis.call('ZREMRANGEBYRANK', list, 0, -max_shapes - 1)
redis.call('EXPIRE', list, ttl)
