#!lua flags=allow-oom
-- queued → running, for the message of this very attempt; and for up to `max_jobs` - 1 other jobs that may be computed
-- in the same launch. Their messages are taken out of the broker's list. A worker whose first try timed out on the way
-- back asks again: it gets the same jobs, as far as they are still its own.
local id, attempt, worker, lease, max_jobs = unpack(ARGV, 2, 6)
local NEAR = 1024 -- numbers, so that a message is not looked for far from the list's end

local function with_operands(job)
  local claimed = reply('running', job.id)
  claimed[4] = redis.call('HMGET', matrices_key(job.id), 'a', 'b')
  return claimed
end

local function start(job, at, others)
  redis.call('ZREM', queued_key(job.queue), job.id)
  redis.call('ZADD', prefix .. 'leases', int(at + lease), job.id)
  enter(job, 'running', '', {
    'runs', int(job.runs + 1), 'started', int(at), 'seen', int(at), 'worker', worker, 'others', others,
  })
  return with_operands(job)
end

local function is_its_own(job)
  return job and job.state == 'running' and redis.call('HGET', job_key(job.id), 'worker') == worker
end

local job = read(id)
if is_its_own(job) and job.attempt == attempt then
  local claimed = {with_operands(job)}
  for other_id in string.gmatch(redis.call('HGET', job_key(id), 'others'), '%S+') do
    local other = read(other_id)
    if is_its_own(other) and other.attempt == '1' then
      claimed[#claimed + 1] = with_operands(other)
    end
  end
  return claimed
elseif not job or job.state ~= 'queued' or job.attempt ~= attempt or job.waits then
  return {}
end
local at = now()
-- A message that was sent twice may be the first or the second. Counting the first never makes messages look lost
-- that still wait between the two.
local started = redis.call('HGET', prefix .. 'started', job.queue)
if tonumber(job.first) > tonumber(started or 0) then
  redis.call('HSET', prefix .. 'started', job.queue, job.first, job.queue .. ':sent', job.queued)
end
local others = {}
if job.batch and job.attempt == '1' and tonumber(max_jobs) > 1 then
  redis.call('ZREM', batch_key(job), id)
  others = redis.call('ZRANGEBYSCORE', batch_key(job), '-inf', int(job.number + NEAR), 'LIMIT', 0, max_jobs - 1)
end
local claimed = {start(job, at, table.concat(others, ' '))}
for _, other_id in ipairs(others) do
  local other = read(other_id)
  redis.call('LREM', LISTS .. other.queue, -1, message_of(other))
  claimed[#claimed + 1] = start(other, at, '')
end
return claimed
