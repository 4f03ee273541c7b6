#!lua
-- Charges a claim for more bytes of a matrix that is coming in; nothing where they would pass a bound.
local id, owner = unpack(ARGV, 2, 3)
local more, max_bytes, max_owner_bytes = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
if not live_claim(id, owner, now()) then
  return {'lost'}
end
local refused = charge_within(owner, more, max_bytes, max_owner_bytes)
if refused then
  return {refused[1], refused[3]}
end
redis.call('HINCRBY', matrix_key(id), 'bytes', int(more))
return {'ok'}
