#!lua flags=allow-oom
local id, attempt, error, error_type, max_attempts = unpack(ARGV, 2, 6)
local job = read_running(id, attempt)
if not job then
  return {'stale'}
end
if error_type == 'verification_failed' then -- the next attempt is for another worker: see claim.lua
  local worker, before = unpack(redis.call('HMGET', job_key(id), 'worker', 'wrong_on'))
  local wrong_on = {}
  for other in string.gmatch(before or '', '%S+') do
    if other ~= worker then
      wrong_on[#wrong_on + 1] = other
    end
  end
  wrong_on[#wrong_on + 1] = worker
  set(job, 'wrong_on', table.concat(wrong_on, ' '))
end
retry_or_fail(job, now(), error, error_type, max_attempts, tonumber(max_attempts) > 1)
carry_out()
return reply(job.state, id)
