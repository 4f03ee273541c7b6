#!lua flags=allow-oom
-- The process in which a worker ran its jobs has ended: all that it held is taken back now, and not when leases run out.
-- Messages that it had and made no claim of are sent again.
local worker, max_attempts, lost, lost_type, late, late_type = unpack(ARGV, 2, 7)
local held, taken, at = {}, {}, now()
for _, id in ipairs(redis.call('ZRANGE', leases, 0, -1)) do
  if redis.call('HGET', job_key(id), 'worker') == worker then
    held[#held + 1] = id
  end
end
if #held > 1 then -- only first attempts have company: whoever did it, each of them is then tried alone
  max_attempts = math.max(max_attempts, 2)
end
for _, id in ipairs(held) do
  local job = read(id)
  local attempt, queued, started = job.attempt, job.queued, job.started
  local why = take_from_worker(job, at, max_attempts, lost, lost_type, late, late_type)
  carry_out()
  taken[#taken + 1] = {id, attempt, job.state, job.trace or '', queued, started, why}
end
for position = 8, #ARGV - 2 do
  local id, attempt = string.match(ARGV[position], '^(.*)%.(%d+)$')
  local job = id and read(id)
  if job and job.state == 'queued' and job.attempt == attempt and not job.waits then
    set(job, 'number', send(job), 'published', int(at))
    carry_out()
    taken[#taken + 1] = {id, attempt, job.state, job.trace or ''}
  end
end
return taken
