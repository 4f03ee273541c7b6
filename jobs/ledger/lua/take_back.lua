#!lua flags=allow-oom
-- A job whose worker fell silent. Its time was up if the worker was still heard of after it.
local id, attempt, max_attempts, lost, lost_type, late, late_type = unpack(ARGV, 2, 8)
local job, at = read_running(id, attempt), now()
if not job then
  if redis.call('HGET', job_key(id), 'state') ~= 'running' then -- a lease of no job would be looked at for ever
    redis.call('ZREM', leases, id)
  end
  return {'stale'}
elseif tonumber(redis.call('ZSCORE', leases, id)) > at then
  return {'stale'}
end
if tonumber(redis.call('HGET', job_key(id), 'seen')) > job.started + job.timeout then
  retry_or_fail(job, at, late, late_type, 0, false)
else
  retry_or_fail(job, at, lost, lost_type, max_attempts, true)
end
carry_out()
return reply(job.state, id)
