-- Put in front of every script here, after its first line (jobs/redis/scripts.py); `prefix`, `int` and `now` come from there.
-- The books of the matrix stores. Every key starts with the prefix:
--   matrix:<id>        hash  dtype, shape, bytes; data: the name that the store keeps the elements under;
--                            until: the latest end of a claim; claim:<owner>: "<made>:<ends>"
--   matrix:<id>:needed zset  "<owner> <job>" for each job that needs it, see common_needs.lua
--   matrices:claims    zset  "<id> <owner>" by the end of the claim, or by when it is looked at next
--   matrices:bytes     hash  all: bytes of all elements kept, each once; of:<owner>: of all the owner's claims; of a
--                            matrix never less than MIN_CHARGE, which its books and its file take
--   chunk:<data>:<i>   the elements, in pieces, and after the last the digests of their parts; only in the redis store
-- A room that a writer has reserved is a claim as well. Times are microseconds of the server's clock.
local claims, bytes_kept = prefix .. 'matrices:claims', prefix .. 'matrices:bytes'
local MIN_CHARGE = 4096 -- bytes; as in jobs/matrices/index.py
local PLAIN_FIELDS = 5 -- of a matrix's hash, beside its claims
local CHUNK_GRACE_MS = 600 * 1000 -- chunks outlive their claims, so that the books go first

local function matrix_key(id)
  return prefix .. 'matrix:' .. id
end

local function needed_key(id)
  return prefix .. 'matrix:' .. id .. ':needed'
end

-- Whether a job of this owner needs the matrix: members of one score are in the order of their letters, and `!` comes
-- next after a space.
local function is_needed(id, owner)
  return redis.call('ZLEXCOUNT', needed_key(id), '[' .. owner .. ' ', '(' .. owner .. '!') > 0
end

-- When a claim was made and when it ends, 0 where its owner gave it up; nil for none.
local function read_claim(claim)
  local made, ends = string.match(claim or '', '^(%d+):(%d+)$')
  return tonumber(made), tonumber(ends)
end

-- The same for a matrix and its owner; nil also where it has ended. None ends by time while a job needs the matrix.
local function live_claim(id, owner, at)
  local made, ends = read_claim(redis.call('HGET', matrix_key(id), 'claim:' .. owner))
  if made and ends > 0 and (ends > at or is_needed(id, owner)) then
    return made, ends
  end
  return nil
end

-- Adds to the bytes kept of all, or of an owner, who is forgotten at 0. How many they are then.
local function charge(field, bytes)
  local kept = bytes ~= 0 and redis.call('HINCRBY', bytes_kept, field, bytes) or 0
  if bytes ~= 0 and kept <= 0 then
    redis.call('HDEL', bytes_kept, field)
  end
  return kept
end

-- Charges bytes that are new to all and to the owner. Where a bound does not allow it nothing is changed, and it returns
-- whose bound it was, the bytes, and how many are kept; else nil.
local function charge_within(owner, bytes, max_bytes, max_owner_bytes)
  local kept, kept_by_owner = charge('all', bytes), charge('of:' .. owner, bytes)
  local refused = nil
  if kept > max_bytes then
    refused = {'full', bytes, kept - bytes}
  elseif kept_by_owner > max_owner_bytes then
    refused = {'owner_full', bytes, kept_by_owner - bytes}
  end
  if refused then
    charge('all', -bytes)
    charge('of:' .. owner, -bytes)
  end
  return refused
end

-- What a matrix of so many bytes is charged.
local function charge_of(bytes)
  return math.max(tonumber(bytes), MIN_CHARGE)
end

-- Puts down the owner's claim, made then and ending then, except in `claims`; `latest` is what the matrix's `until` was, if
-- anything.
local function write_claim(id, owner, made, ends, latest)
  local last = math.max(ends, tonumber(latest or 0))
  redis.call('HSET', matrix_key(id), 'claim:' .. owner, int(made) .. ':' .. int(ends), 'until', int(last))
end

local function set_claim(id, owner, made, ends, latest)
  write_claim(id, owner, made, ends, latest)
  redis.call('ZADD', claims, int(ends), id .. ' ' .. owner)
end

-- Makes a matrix with one claim, of one owner; its elements are kept under its id. Its bytes are charged already, and the
-- caller adds it to `claims`. Both times are text.
local function new_matrix(id, owner, dtype, shape, bytes, made, ends)
  call('HSET', matrix_key(id), 'dtype', dtype, 'shape', shape, 'bytes', bytes, 'data', id,
    'claim:' .. owner, made .. ':' .. ends, 'until', ends)
end

-- Takes a claim off the books. Returns {data, bytes} where it was the last, for the store to remove; else nil.
local function drop_claim(id, owner)
  local key = matrix_key(id)
  redis.call('ZREM', claims, id .. ' ' .. owner)
  if redis.call('HDEL', key, 'claim:' .. owner) == 0 then
    return nil
  end
  local data, bytes = unpack(redis.call('HMGET', key, 'data', 'bytes'))
  charge('of:' .. owner, -charge_of(bytes))
  if redis.call('HLEN', key) > PLAIN_FIELDS then
    return nil
  end
  charge('all', -charge_of(bytes))
  redis.call('DEL', key, needed_key(id))
  return {data, bytes}
end

local function chunk_key(data, i)
  return prefix .. 'chunk:' .. data .. ':' .. i
end

local function chunk_count(bytes, chunk_bytes)
  return math.max(1, math.ceil(bytes / chunk_bytes))
end

-- Puts the chunks of `data` in the place of those of `kept_data`; a chunk that is not there leaves the other's.
local function move_chunks(data, kept_data, bytes, chunk_bytes)
  if chunk_bytes == 0 or data == kept_data then
    return
  end
  for i = 0, chunk_count(bytes, chunk_bytes) - 1 do
    if redis.call('EXISTS', chunk_key(data, i)) == 1 then
      redis.call('RENAME', chunk_key(data, i), chunk_key(kept_data, i))
    end
  end
end

-- Keeps the chunks of `data` for as long as jobs need it; how many there are. None in a store without chunks.
local function persist_chunks(data)
  local kept = 0
  while redis.call('EXISTS', chunk_key(data, kept)) == 1 do
    redis.call('PERSIST', chunk_key(data, kept))
    kept = kept + 1
  end
  return kept
end

-- The same, or until the latest claim on the matrix ends where no job needs it.
local function time_chunks(id, data)
  local kept = 0
  if redis.call('EXISTS', needed_key(id)) == 1 then
    return persist_chunks(data)
  end
  local ends_ms = math.ceil(redis.call('HGET', matrix_key(id), 'until') / 1000) + CHUNK_GRACE_MS
  while redis.call('PEXPIREAT', chunk_key(data, kept), int(ends_ms)) == 1 do
    kept = kept + 1
  end
  return kept
end

-- The same; whether all of them are there. `chunk_bytes` is 0 for a store without chunks: there is nothing to keep, and
-- all of it is there.
local function keep_chunks(id, data, bytes, chunk_bytes)
  return chunk_bytes == 0 or time_chunks(id, data) == chunk_count(bytes, chunk_bytes)
end
