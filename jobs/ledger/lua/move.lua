#!lua flags=allow-oom
-- A job that is still queued there, under that attempt, goes to another queue, behind the others of its key; 0 where it
-- moved on.
local id, attempt, from, to = unpack(ARGV, 2, 5)
local job = read(id)
if not job or job.state ~= 'queued' or job.attempt ~= attempt or job.queue ~= from or job.waits then
  return 0
end
local at = int(now())
if tonumber(job.number) > 0 then -- should a worker come back there, it has nothing to pass over
  redis.call('LREM', LISTS .. from, -1, message_of(id, attempt, from, job.timeout, job.number))
end
write('ZREM', queued_key(from), id)
if job.batch then
  write('ZREM', batch_key(job), id)
end
leave_window(job)
send_following(at)
job.queue = to
line_up(job)
set(job, 'queue', to, 'number', job.number, 'first', job.number, 'published', at)
carry_out()
return 1
