#!lua
-- failed | cancelled → queued, with a fresh count of runs. Refused while Redis is out of memory.
local id, owner, unmet = unpack(ARGV, 2, 4)
local job = read_owned(id, owner)
if not job then
  return {'not_found'}
elseif job.state ~= 'failed' and job.state ~= 'cancelled' then
  return {job.state}
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
for _, key in ipairs(per_owner(job, 'dead')) do
  redis.call('ZREM', key, job.id)
end
redis.call('ZREM', prefix .. 'finished', job.id)
redis.call('ZREM', prefix .. 'packed', job.id)
redis.call('HDEL', job_key(job.id), 'progress', 'error', 'error_type', 'finished')
redis.call('PERSIST', events_key(job.id))
job.attempt, job.runs = int(job.attempt + 1), '0'
local at = now()
if not wait_for_products(job, sources, at, unmet) then
  enqueue(job, at, '')
end
return reply('redriven', job.id)
