#!lua
-- Records a job as queued, sends its message, or will once its operands are there, and binds its Idempotency-Key.
-- Refused while Redis is out of memory.
local id, owner, kind, queue, timeout, request, asked = unpack(ARGV, 2, 8)
local max_queued, max_queued_per_owner = tonumber(ARGV[9]), tonumber(ARGV[10])
local digest, fingerprint, bound_ms = unpack(ARGV, 11, 13)
local a, b, product_bytes, ttl, most, most_of_owner = unpack(ARGV, 14, 19)
local batch, reply_to = unpack(ARGV, 20, 21)
local a_job, b_job, unmet = unpack(ARGV, 22, 24)
local held = #a + #b + product_bytes

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
local sources, in_record = {}, {a = a ~= '', b = b ~= ''}
if unmet ~= '' then
  local refusal
  sources, refusal = read_sources({a = a_job, b = b_job}, owner)
  if refusal then
    return refusal
  end
  for _, each in ipairs(sources) do
    held, in_record[each.name] = held + each.room, each.room > 0
  end
end
if held > 0 then
  local used, used_by_owner = unpack(redis.call('HMGET', prefix .. 'matrices:bytes', 'all', 'of:' .. owner))
  if (used or 0) + held > tonumber(most) then
    return {'full', held, tonumber(used or 0)}
  elseif (used_by_owner or 0) + held > tonumber(most_of_owner) then
    return {'owner_full', held, tonumber(used_by_owner or 0)}
  end
end

local at = now()
local seq = redis.call('INCR', prefix .. 'seq')
redis.call('HSET', job_key(id), 'id', id, 'owner', owner, 'kind', kind, 'queue', queue, 'timeout', timeout,
  'request', request, 'asked', asked, 'seq', seq, 'created', int(at), 'ttl', ttl, 'product_bytes', product_bytes,
  'in_record', (in_record.a and 'a' or '') .. (in_record.b and 'b' or ''))
for field, matrix in pairs({a = a, b = b}) do
  if matrix ~= '' then
    redis.call('HSET', matrices_key(id), field, matrix)
  end
end
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
if batch ~= '' then
  job.batch = batch
  redis.call('HSET', job_key(id), 'batch', batch)
end
if reply_to ~= '' then
  redis.call('HSET', job_key(id), 'reply_to', reply_to)
end
hold(job, held)
if unmet == '' or not wait_for_products(job, sources, at, unmet) then
  enqueue(job, at, '')
end
return reply('recorded', id)
