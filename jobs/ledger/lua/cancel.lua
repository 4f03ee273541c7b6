#!lua flags=allow-oom
local job = read_owned(ARGV[2], ARGV[3])
if not job then
  return {'not_found'}
elseif job.state == 'cancelled' then
  return reply('already_cancelled', job.id)
elseif job.state ~= 'queued' and job.state ~= 'running' then
  return {job.state}
end
local at = now()
take_out(job)
finish(job, 'cancelled', at, '', {})
send_following(int(at))
carry_out()
return reply('cancelled', job.id)
