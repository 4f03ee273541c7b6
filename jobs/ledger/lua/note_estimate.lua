#!lua
-- What a benchmark was thought to take, and to measure, before it ran; nothing where the job is gone.
local id, estimate, measurements = unpack(ARGV, 2, 4)
if redis.call('EXISTS', job_key(id)) == 1 then
  redis.call('HSET', job_key(id), 'estimate', estimate, 'estimated', measurements)
end
