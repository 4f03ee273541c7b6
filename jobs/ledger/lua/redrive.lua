#!lua
-- failed | cancelled → queued, with a fresh count of runs. Refused while Redis is out of memory.
local job = read_owned(ARGV[2], ARGV[3])
if not job then
  return {'not_found'}
elseif job.state ~= 'failed' and job.state ~= 'cancelled' then
  return {job.state}
end
for _, key in ipairs(per_owner(job, 'dead')) do
  write('ZREM', key, job.id)
end
write('ZREM', prefix .. 'finished', job.id)
write('ZREM', prefix .. 'packed', job.id)
write('HDEL', job_key(job.id), 'progress', 'error', 'error_type', 'finished')
redis.call('PERSIST', events_key(job.id))
job.attempt, job.runs = int(job.attempt + 1), '0'
enqueue(job, int(now()), '')
carry_out()
return reply('redriven', job.id)
