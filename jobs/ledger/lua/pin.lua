#!lua
-- Pins a benchmark that succeeded: it does not expire, nor goes where there are too many. What it keeps is charged.
local id, owner, max_pinned, max_bytes, max_owner_bytes = unpack(ARGV, 2, 6)
local job = read_owned(id, owner)
if not job then
  return {'not_found'}
elseif job.kind ~= 'benchmark' or job.state ~= 'succeeded' then
  return {'not_done'}
end
local pins = prefix .. 'pinned:' .. job.owner
if redis.call('ZSCORE', pins, id) then
  return {'pinned'}
elseif redis.call('ZCARD', pins) >= tonumber(max_pinned) then
  return {'too_many'}
end
local bytes = 0
local findings = redis.call('HGETALL', findings_key(id))
for i = 2, #findings, 2 do
  bytes = bytes + #findings[i]
end
local refused = charge_within(job.owner, bytes, tonumber(max_bytes), tonumber(max_owner_bytes))
if refused then
  return refused
end
for _, key in ipairs(per_owner(job, 'finished')) do
  write('ZREM', key, id)
end
write('ZADD', pins, int(now()), id)
count('pinned', 1)
set(job, 'held', int(tonumber(job.held or 0) + bytes), 'pin_bytes', int(bytes))
carry_out()
return {'pinned'}
