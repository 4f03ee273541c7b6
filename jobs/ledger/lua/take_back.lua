#!lua flags=allow-oom
-- A job whose worker fell silent.
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
local queued, started = job.queued, job.started
local why = take_from_worker(job, at, max_attempts, lost, lost_type, late, late_type)
carry_out()
local answer = reply(job.state, id)
answer[4], answer[5], answer[6], answer[7] = job.trace or '', queued, started, why
return answer
