#!lua flags=no-writes
-- A matrix as one of its owners sees it; an empty reply where they have no claim to it.
local id, owner = unpack(ARGV, 2, 3)
local made, ends = live_claim(id, owner, now())
if not made then
  return {}
end
local dtype, shape = unpack(redis.call('HMGET', matrix_key(id), 'dtype', 'shape'))
return {dtype, shape, int(made), int(ends)}
