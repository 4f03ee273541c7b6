#!lua flags=allow-oom
-- queued → running, for the message of this very attempt.
local id, attempt, worker, lease = unpack(ARGV, 2, 5)
local job = read(id)
if not job or job.state ~= 'queued' or job.attempt ~= attempt then
  return {'stale'}
end
local at = now()
redis.call('ZREM', queued_key(job.queue), id)
redis.call('ZADD', prefix .. 'leases', int(at + lease), id)
-- A message that was sent twice may be the first or the second. Counting the first never makes messages look lost
-- that still wait between the two.
local started = redis.call('HGET', prefix .. 'started', job.queue)
if tonumber(job.first) > tonumber(started or 0) then
  redis.call('HSET', prefix .. 'started', job.queue, job.first, job.queue .. ':sent', job.queued)
end
enter(job, 'running', '', {'runs', int(job.runs + 1), 'started', int(at), 'seen', int(at), 'worker', worker})
return reply('running', id)
