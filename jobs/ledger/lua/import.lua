#!lua
-- Records a benchmark that another service made, as one that succeeded here, and pins it. Refused while Redis is full.
local id, owner, request, asked, outcome, device, created, started, finished = unpack(ARGV, 2, 10)
local progress, max_pinned, max_bytes, max_owner_bytes, bytes = unpack(ARGV, 11, 15)
local FINDINGS = 16 -- from here on names and values
local pins = prefix .. 'pinned:' .. owner
if redis.call('ZCARD', pins) >= tonumber(max_pinned) then
  return {'too_many'}
end
local refused = charge_within(owner, tonumber(bytes), tonumber(max_bytes), tonumber(max_owner_bytes))
if refused then
  return refused
end
local at, seq = int(now()), int(read_counts('seq').seq + 1)
count('seq', 1)
redis.call('HSET', job_key(id), 'id', id, 'owner', owner, 'kind', 'benchmark', 'queue', 'imported', 'timeout', '0',
  'request', request, 'asked', asked, 'seq', seq, 'created', created, 'ttl', '0', 'product_bytes', '0', 'held', bytes,
  'pin_bytes', bytes, 'in_record', '', 'state', 'succeeded', 'attempt', '1', 'runs', '1', 'version', '1', 'number', '0',
  'first', '0', 'published', created, 'queued', created, 'started', started, 'finished', finished, 'outcome', outcome,
  'device', device, 'progress', progress, 'imported', at)
for i = FINDINGS, #ARGV, 2 do
  redis.call('HSET', findings_key(id), ARGV[i], ARGV[i + 1])
end
write('ZADD', state_key('all', owner), seq, id)
write('ZADD', state_key('succeeded', owner), seq, id)
write('ZADD', pins, at, id)
count('pinned', 1)
carry_out()
return {'pinned'}
