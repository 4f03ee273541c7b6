#!lua
-- Charges a claim for more bytes of a matrix that is coming in; nothing where they would pass a bound.
local id, owner = unpack(ARGV, 2, 3)
local more, most, most_of_owner = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
if not live_claim(id, owner, now()) then
  return {'lost'}
end
local used, used_by_owner = unpack(redis.call('HMGET', bytes_kept, 'all', 'of:' .. owner))
if (used or 0) + more > most then
  return {'full', tonumber(used or 0)}
elseif (used_by_owner or 0) + more > most_of_owner then
  return {'owner_full', tonumber(used_by_owner or 0)}
end
redis.call('HINCRBY', matrix_key(id), 'bytes', int(more))
charge('all', more)
charge('of:' .. owner, more)
return {'ok'}
