#!lua flags=allow-oom
-- queued → running, for the message of this very attempt; and for up to `max_jobs` - 1 other jobs that may be computed in the
-- same launch. Their messages are taken out of the broker's list.
local id, attempt, worker, lease, max_jobs = unpack(ARGV, 2, 6)
local NEAR = 1024 -- numbers, so that a message is not looked for far from the list's end

local function start(job, at)
  redis.call('ZREM', queued_key(job.queue), job.id)
  redis.call('ZADD', prefix .. 'leases', int(at + lease), job.id)
  enter(job, 'running', '', {'runs', int(job.runs + 1), 'started', int(at), 'seen', int(at), 'worker', worker})
  local claimed = reply('running', job.id)
  claimed[4] = redis.call('HMGET', matrices_key(job.id), 'a', 'b')
  return claimed
end

local job = read(id)
if not job or job.state ~= 'queued' or job.attempt ~= attempt then
  return {}
end
local at, number = now(), tonumber(job.number)
-- A message that was sent twice may be the first or the second. Counting the first never makes messages look lost
-- that still wait between the two.
local started = redis.call('HGET', prefix .. 'started', job.queue)
if tonumber(job.first) > tonumber(started or 0) then
  redis.call('HSET', prefix .. 'started', job.queue, job.first, job.queue .. ':sent', job.queued)
end
local claimed = {start(job, at)}
if job.batch and job.attempt == '1' and tonumber(max_jobs) > 1 then
  local key, upto = batch_key(job), int(number + NEAR)
  for _, other_id in ipairs(redis.call('ZRANGEBYSCORE', key, '-inf', upto, 'LIMIT', 0, max_jobs - 1)) do
    local other = read(other_id)
    redis.call('LREM', LISTS .. other.queue, -1, message_of(other))
    claimed[#claimed + 1] = start(other, at)
  end
end
return claimed
