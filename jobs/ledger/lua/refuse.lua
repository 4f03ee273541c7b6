#!lua flags=allow-oom
-- running → queued, under the same attempt and at the old place, for jobs (id, attempt) that a worker has just claimed and
-- does not understand. No message is sent now, for that worker would get it: the sweeper sends it as a lost one, later
-- after each refusal.
local worker, longest = ARGV[2], tonumber(ARGV[3])
local KEPT = 32 -- workers that refused it, the latest
local at = now()

local function refusers(id)
  local by, others = {worker}, redis.call('HGET', job_key(id), 'refused_by') or ''
  for other in string.gmatch(others, '%S+') do
    if other ~= worker and #by < KEPT then
      by[#by + 1] = other
    end
  end
  return table.concat(by, ' ')
end

for i = 4, #ARGV, 2 do
  local job = read_running(ARGV[i], ARGV[i + 1])
  if job and redis.call('HGET', job_key(job.id), 'worker') == worker then
    local refusals = tonumber(redis.call('HGET', job_key(job.id), 'refusals') or 0)
    local pause = math.min(longest, (2 ^ math.min(refusals, 30) - 1) * 1e6)
    local number = int(math.abs(job.number)) -- also one that was taken out of a backlog counts as sent
    write('ZADD', queued_key(job.queue), number, job.id)
    if job.owner ~= OPEN then -- its claim left the window
      redis.call('HINCRBY', window_key(job.queue), job.owner, 1)
    end
    write('HDEL', job_key(job.id), 'started')
    enter(job, 'queued', '', 'runs', int(job.runs - 1), 'number', number, 'first', number, 'published', int(at + pause),
      'refusals', int(refusals + 1), 'refused_by', refusers(job.id))
    redis.call('ZADD', prefix .. 'refused', 'NX', int(at), job.id)
  end
end
carry_out()
