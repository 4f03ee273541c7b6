#!lua flags=allow-oom
-- Queued jobs, first refused before `age` ago, by whom, at most `limit`. What has ended is forgotten here.
local age, limit = ARGV[2], ARGV[3]
local found = {}
for _, id in ipairs(redis.call('ZRANGEBYSCORE', prefix .. 'refused', '-inf', int(now() - age), 'LIMIT', 0, limit)) do
  local state, attempt, queue, by, trace =
    unpack(redis.call('HMGET', job_key(id), 'state', 'attempt', 'queue', 'refused_by', 'trace'))
  if not state or ENDED[state] then
    redis.call('ZREM', prefix .. 'refused', id)
  elseif state == 'queued' then
    found[#found + 1] = {id, attempt, queue, by or '', trace or ''}
  end
end
return found
