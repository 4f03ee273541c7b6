#!lua flags=allow-oom
local id, attempt, error, error_type, max_attempts = unpack(ARGV, 2, 6)
local job = read_running(id, attempt)
if not job then
  return {'stale'}
end
retry_or_fail(job, now(), error, error_type, max_attempts, tonumber(max_attempts) > 1)
carry_out()
return reply(job.state, id)
