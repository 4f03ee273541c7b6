#!lua
-- Shapes asked for, to be measured when there is time; those that were tried are left out.
local shapes = {}
for position = 5, #ARGV do
  if redis.call('HEXISTS', measured(ARGV[2]), ARGV[position]) == 0 then
    shapes[#shapes + 1] = ARGV[position]
  end
end
want(ARGV[2], ARGV[3], ARGV[4], shapes)
