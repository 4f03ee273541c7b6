#!lua flags=allow-oom
-- No lease outlives the job's hard limit: a worker that hangs and still says so is taken back all the same. `ran`: for how
-- long the worker has had the job, by its own clock, for the clock here may have been set since; '' where it does not say.
local id, attempt, lease, margin, ran = unpack(ARGV, 2, 6)
local job = read_running(id, attempt)
if not job then
  return 0
end
local at = now()
ran = tonumber(ran) or at - job.started
redis.call('ZADD', leases, int(at + math.min(lease, job.timeout + margin - ran)), id)
redis.call('HSET', job_key(id), 'seen', int(job.started + ran))
return 1
