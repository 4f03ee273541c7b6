#!lua flags=allow-oom
-- A queued job that no live worker understands fails, and its key's next job is sent; 0 where it moved on.
local id, attempt, error, error_type = unpack(ARGV, 2, 5)
local job = read(id)
if not job or job.state ~= 'queued' or job.attempt ~= attempt or job.waits then
  return 0
end
write('HDEL', job_key(id), 'refusals', 'refused_by')
write('ZREM', prefix .. 'refused', id)
local at = now()
take_out(job)
finish(job, 'failed', at, ',"error":' .. error, {error = error}, 'error', error, 'error_type', error_type)
send_following(int(at))
carry_out()
return 1
