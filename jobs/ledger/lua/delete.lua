#!lua flags=allow-oom
local job = read_owned(ARGV[2], ARGV[3])
if not job then
  return {'not_found'}
elseif job.state == 'queued' or job.state == 'running' then
  return {job.state}
end
local last = reply('deleted', job.id)
forget(job)
carry_out()
return last
