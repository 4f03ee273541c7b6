#!lua flags=no-writes
-- Up to `limit` jobs that wait in a queue, from a score on: the last one's score ('' where there is none), then of each
-- the id, attempt and request.
local queue, from, limit = unpack(ARGV, 2, 4)
local ids = redis.call('ZRANGEBYSCORE', queued_key(queue), from, '+inf', 'WITHSCORES', 'LIMIT', 0, limit)
local found = {ids[#ids] or ''}
for i = 1, #ids, 2 do
  local attempt, request = unpack(redis.call('HMGET', job_key(ids[i]), 'attempt', 'request'))
  if request then
    found[#found + 1] = {ids[i], attempt, request}
  end
end
return found
