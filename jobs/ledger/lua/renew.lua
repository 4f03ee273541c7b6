#!lua flags=allow-oom
-- No lease outlives the job's hard limit: a worker that hangs and still says so is taken back all the same.
local id, attempt, lease, margin = unpack(ARGV, 2, 5)
local job = read_running(id, attempt)
if not job then
  return 0
end
local at = now()
redis.call('ZADD', leases, int(math.min(at + lease, job.started + job.timeout + margin)), id)
redis.call('HSET', job_key(id), 'seen', int(at))
return 1
