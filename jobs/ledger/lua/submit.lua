#!lua
-- Records a job as queued, sends its message, or will once its operands are there, and binds its Idempotency-Key.
-- Refused while Redis is out of memory.
local id, owner, kind, queue, timeout, request, asked = unpack(ARGV, 2, 8)
local max_queued, limits = tonumber(ARGV[9]), ARGV[10]
local digest, fingerprint, bound_ms = unpack(ARGV, 11, 13)
local a, b, c, product_bytes, ttl, most, most_of_owner = unpack(ARGV, 14, 20)
local batch, reply_to = unpack(ARGV, 21, 22)
local a_job, b_job, c_job, unmet = unpack(ARGV, 23, 26)
local needs = ARGV[27] -- stored matrices that are its operands: see common_needs.lua
local most_ended, most_ended_of_owner = tonumber(ARGV[28]), tonumber(ARGV[29])
local trace, room, used_ttl, stored_bytes, stored_ttl = unpack(ARGV, 30, 34)
local STORED = 35 -- from here on id, element type, shape and bytes of each operand that is stored for this job
local held = #a + #b + #c + product_bytes

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
if read_counts('seq', 'waiting', 'number:' .. queue, 'workers:' .. queue).waiting >= max_queued then
  return {'queue_full'}
end
local over, charge = over_quota(owner, limits)
if over then
  return over
end
local sources, in_record = {}, (a ~= '' and 'a' or '') .. (b ~= '' and 'b' or '') .. (c ~= '' and 'c' or '')
if unmet ~= '' then
  local refusal
  sources, refusal = read_sources({a = a_job, b = b_job, c = c_job}, owner)
  if refusal then
    return refusal
  end
  held, in_record = with_products(sources, held, in_record)
end
local at, new = int(now()), {}
for i = STORED, #ARGV - 2, 4 do
  new[ARGV[i]] = true
end
local missing = missing_operand(needs, owner, tonumber(at), new)
if missing then
  return {'operand_missing', missing}
end
local refused = charge_within(owner, held + stored_bytes + room, tonumber(most), tonumber(most_of_owner))
if refused then
  return refused
end
owe(owner, -room)

local seq = int(known.seq + 1)
count('seq', 1)
local job = {
  id = id, owner = owner, queue = queue, timeout = timeout, seq = seq, attempt = '1', runs = '0', version = 0, held = held,
  in_record = in_record,
}
set(job, 'id', id, 'owner', owner, 'kind', kind, 'queue', queue, 'timeout', timeout, 'request', request, 'asked', asked,
  'seq', seq, 'created', at, 'ttl', ttl, 'product_bytes', product_bytes, 'held', held,
  'in_record', in_record)
charge_quota(job, charge)
for field, matrix in pairs({a = a, b = b, [FIELD.c] = c}) do
  if matrix ~= '' then
    write('HSET', matrices_key(id), field, matrix)
  end
end
if digest ~= '' then
  set(job, 'idem', digest)
  redis.call('HSET', bound, 'job', id, 'fingerprint', fingerprint)
  redis.call('PEXPIRE', bound, bound_ms)
end
if batch ~= '' then
  job.batch = batch
  set(job, 'batch', batch)
end
if trace ~= '' then
  set(job, 'trace', trace)
end
if reply_to ~= '' then
  set(job, 'reply_to', reply_to)
end
for i = STORED, #ARGV - 2, 4 do
  local matrix, dtype, shape, bytes = unpack(ARGV, i, i + 3)
  new_matrix(matrix, owner, dtype, shape, bytes, matrix, at, at + stored_ttl)
end
use_operands(needs, owner, tonumber(at), tonumber(used_ttl), new)
need_operands(job, needs)
forget_oldest(owner, most_ended, most_ended_of_owner, at)
write('ZADD', state_key('all', owner), seq, id)
if unmet ~= '' then
  if not wait_for_products(job, sources, at, unmet) then
    enqueue(job, at, '')
  end
  carry_out()
  return reply('chained', id)
end
enqueue(job, at, '')
carry_out()
return {'recorded', seq, at, job.number, place_of(queue, owner, job.number, id)}
