#!lua
-- failed | cancelled → queued, with a fresh count of runs, and binds the request's Idempotency-Key. Refused while Redis
-- is out of memory, and where as many jobs wait as may.
local id, owner = ARGV[2], ARGV[3]
local max_queued, limits = tonumber(ARGV[4]), ARGV[5]
local digest, fingerprint, bound_ms, unmet, max_bound = unpack(ARGV, 6, 10)
local job = read_owned(id, owner)
if not job then
  return {'not_found'}
end
local bound = prefix .. 'idem:' .. digest
if digest ~= '' then
  local first, its_fingerprint = unpack(redis.call('HMGET', bound, 'job', 'fingerprint'))
  if first and its_fingerprint ~= fingerprint then
    return {'reused'}
  elseif first then
    return reply('bound', job.id)
  end
end
if job.state ~= 'failed' and job.state ~= 'cancelled' then
  return {job.state}
elseif read_counts('waiting', 'number:' .. job.queue).waiting >= max_queued then
  return {'queue_full'}
end
local over, charge = over_quota(job.owner, limits, job.cost)
if over then
  return over
end
local sources, refusal = read_sources(missing_products(id), job.owner)
if refusal then
  return refusal
end
for _, each in ipairs(sources) do
  if each.room > 0 and tonumber(job.held or 0) == 0 then -- the room for it was given up
    return {'operand_missing', each.name}
  end
end
local at, needs = int(now()), needs_of(job)
local missing = missing_in_record(job) or missing_operand(needs, job.owner, tonumber(at), {})
if missing then
  return {'operand_missing', missing}
end
need_operands(job, needs, {})
if digest ~= '' then
  bind_key(job.owner, digest, fingerprint, job.id, bound_ms, tonumber(max_bound))
end
for _, name in ipairs({'dead', 'finished'}) do
  for _, key in ipairs(per_owner(job, name)) do
    write('ZREM', key, job.id)
  end
end
write('ZREM', prefix .. 'packed', job.id)
write('HDEL', job_key(job.id), 'progress', 'error', 'error_type', 'finished', 'no_room_since')
redis.call('PERSIST', events_key(job.id))
job.attempt, job.runs = int(job.attempt + 1), '0'
charge_quota(job, charge)
if not wait_for_products(job, sources, at, unmet) then
  enqueue(job, at, '')
end
carry_out()
return reply('redriven', job.id)
