#!lua flags=allow-oom
-- A queued job that no live worker understands fails; 0 where it moved on.
local id, attempt, error, error_type = unpack(ARGV, 2, 5)
local job = read(id)
if not job or job.state ~= 'queued' or job.attempt ~= attempt or job.waits then
  return 0
end
write('HDEL', job_key(id), 'refusals', 'refused_by')
write('ZREM', prefix .. 'refused', id)
finish(job, 'failed', now(), ',"error":' .. error, {error = error}, 'error', error, 'error_type', error_type)
carry_out()
return 1
