#!lua
-- Claims a matrix for an owner: makes it, adds an owner to it, or puts the end of a claim off. With `upload`, the id
-- whose claim reserved the room for these elements, that one is given up in the same step.
local id, owner, dtype, shape, bytes, ttl, data, upload = unpack(ARGV, 2, 9)
local chunk_bytes, max_bytes, max_owner_bytes = tonumber(ARGV[10]), tonumber(ARGV[11]), tonumber(ARGV[12])
bytes = tonumber(bytes)
local charged = charge_of(bytes)
local at, key = now(), matrix_key(id)
if upload ~= '' then
  drop_claim(upload, owner)
end

local known = redis.call('HMGET', key, 'dtype', 'shape', 'data', 'until', 'claim:' .. owner)
local known_data, claim = known[3], known[5]
local used, used_by_owner = unpack(redis.call('HMGET', bytes_kept, 'all', 'of:' .. owner))
if known_data and (known[1] ~= dtype or known[2] ~= shape) then
  return {'taken'}
elseif not known_data and (used or 0) + charged > max_bytes then
  return {'full', tonumber(used or 0)}
elseif not claim and (used_by_owner or 0) + charged > max_owner_bytes then
  return {'owner_full', tonumber(used_by_owner or 0)}
end

local made, ends = read_claim(claim)
if not made or ends <= at or upload == '' then
  made = at -- a name that is written again, by another attempt of the job, is a new claim
end
ends = math.max(ends or 0, at + tonumber(ttl))
if not known_data then
  redis.call('HSET', key, 'dtype', dtype, 'shape', shape, 'bytes', int(bytes), 'data', data)
  charge('all', charged)
end
if not claim then
  charge('of:' .. owner, charged)
end
set_claim(id, owner, made, ends, known[4])

-- Contents that were there already get the chunks just uploaded: they are equal, and whole even where those that were
-- there are lost or damaged.
local kept_data = known_data or data
if upload ~= '' then
  move_chunks(data, kept_data, bytes, chunk_bytes)
  if not keep_chunks(id, kept_data, bytes, chunk_bytes) then
    drop_claim(id, owner)
    return {'lost'}
  end
end
return {'ok', int(made), int(ends), kept_data}
