#!lua flags=no-writes
-- For each queue: how many wait, and for how long the first of them has (-1: none waits).
local at, depths = now(), {}
for i = 2, #ARGV do
  local key = queued_key(ARGV[i])
  local first = redis.call('ZRANGE', key, 0, 0)[1]
  local age = first and math.max(0, at - (redis.call('HGET', job_key(first), 'queued') or at)) or -1
  depths[i - 1] = {redis.call('ZCARD', key), int(age)}
end
return depths
