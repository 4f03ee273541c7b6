-- Taking a running job from a worker that is gone.

-- Queued again, or failed. Its time was up if the worker was still heard of after it. Returns why.
local function take_from_worker(job, at, max_attempts, lost, lost_type, late, late_type)
  if tonumber(redis.call('HGET', job_key(job.id), 'seen')) > job.started + job.timeout then
    retry_or_fail(job, at, late, late_type, 0, false)
    return late_type
  end
  retry_or_fail(job, at, lost, lost_type, max_attempts, true)
  return lost_type
end
