#!lua
-- Records a job as queued, sends its message and binds its Idempotency-Key. Refused while Redis is out of memory.
local id, owner, kind, queue, timeout, request, asked = unpack(ARGV, 2, 8)
local max_queued, max_queued_per_owner = tonumber(ARGV[9]), tonumber(ARGV[10])
local digest, fingerprint, bound_ms = unpack(ARGV, 11, 13)

if redis.call('EXISTS', job_key(id)) == 1 then
  return reply('bound', id)
end
local bound = prefix .. 'idem:' .. digest
if digest ~= '' then
  local first, its_fingerprint = unpack(redis.call('HMGET', bound, 'job', 'fingerprint'))
  if first and its_fingerprint ~= fingerprint then
    return {'reused'}
  elseif first and redis.call('EXISTS', job_key(first)) == 1 then
    return reply('bound', first)
  end
end
if redis.call('ZCARD', prefix .. 'jobs:queued') >= max_queued then
  return {'queue_full'}
elseif redis.call('ZCARD', prefix .. 'jobs:queued:' .. owner) >= max_queued_per_owner then
  return {'quota_exceeded'}
end

local at = now()
local seq = redis.call('INCR', prefix .. 'seq')
redis.call('HSET', job_key(id), 'id', id, 'owner', owner, 'kind', kind, 'queue', queue, 'timeout', timeout,
  'request', request, 'asked', asked, 'seq', seq, 'created', int(at))
if digest ~= '' then
  redis.call('HSET', job_key(id), 'idem', digest)
  redis.call('HSET', bound, 'job', id, 'fingerprint', fingerprint)
  redis.call('PEXPIRE', bound, bound_ms)
end
for _, key in ipairs({prefix .. 'jobs:all', prefix .. 'jobs:all:' .. owner}) do
  redis.call('ZADD', key, seq, id)
end
local job = {
  id = id, owner = owner, queue = queue, timeout = timeout, seq = seq, attempt = '1', runs = '0', version = 0,
}
enqueue(job, at, '')
return reply('recorded', id)
