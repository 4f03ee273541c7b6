-- Put after common.lua, also for the scripts of the ledger: jobs that need a matrix. While one does, its owner's claim on
-- it does not end by time, and a claim that its owner gives up stays, unseen and charged, until no job of the owner's
-- needs the matrix.
local LOOKED_AT = 16 -- of the jobs that should need a matrix, in one step
local LOOK_AGAIN_US = 600 * 1e6 -- a claim beyond its time that a job needs is put off by so much

-- `data`: what the store keeps the elements under, where that is known.
local function need_matrix(id, owner, job, data)
  redis.call('ZADD', needed_key(id), 0, owner .. ' ' .. job)
  persist_chunks(data or redis.call('HGET', matrix_key(id), 'data'))
end

-- Puts the end of a claim off, never nearer.
local function use_matrix(id, owner, at, ttl)
  local claim, latest = unpack(redis.call('HMGET', matrix_key(id), 'claim:' .. owner, 'until'))
  local made, ends = read_claim(claim)
  if made and ends > 0 and ends < at + ttl then
    set_claim(id, owner, made, at + ttl, latest)
  end
end

-- Ends the owner's claim, which the sweep then drops with what it kept.
local function give_up_claim(id, owner, at)
  local made = read_claim(redis.call('HGET', matrix_key(id), 'claim:' .. owner))
  if made then
    redis.call('HSET', matrix_key(id), 'claim:' .. owner, int(made) .. ':0')
    redis.call('ZADD', claims, int(at), id .. ' ' .. owner)
  end
end

-- The job needs the matrix no more, which its owner then keeps until `ends` at least; or until just then, where it is
-- `its_own`.
local function need_no_more(id, owner, job, at, ends, its_own)
  if redis.call('ZREM', needed_key(id), owner .. ' ' .. job) == 0 then
    return
  end
  local claim, latest, data = unpack(redis.call('HMGET', matrix_key(id), 'claim:' .. owner, 'until', 'data'))
  local made, ended = read_claim(claim)
  if not made then
    return
  elseif ended == 0 and not is_needed(id, owner) then
    give_up_claim(id, owner, at)
  elseif ended ~= 0 and (ended < ends or its_own) then
    set_claim(id, owner, made, ends, latest)
  end
  time_chunks(id, data)
end

-- Whether a job of the owner's needs the matrix still. Strikes out those that only should: jobs that older scripts
-- ended, or that are there no more.
local function is_needed_still(id, owner)
  for _ = 1, LOOKED_AT do
    local range = {'[' .. owner .. ' ', '(' .. owner .. '!', 'LIMIT', 0, 1}
    local member = redis.call('ZRANGEBYLEX', needed_key(id), unpack(range))[1]
    if not member then
      return false
    end
    local state = redis.call('HGET', prefix .. 'job:' .. string.sub(member, #owner + 2), 'state')
    if state == 'queued' or state == 'running' then
      return true
    end
    redis.call('ZREM', needed_key(id), member)
  end
  return true
end

-- A claim whose time is up stays for some more.
local function put_off(id, owner, at)
  local claim, latest = unpack(redis.call('HMGET', matrix_key(id), 'claim:' .. owner, 'until'))
  local made, ends = read_claim(claim)
  if ends == 0 then
    redis.call('ZADD', claims, int(at + LOOK_AGAIN_US), id .. ' ' .. owner)
  else
    set_claim(id, owner, made, at + LOOK_AGAIN_US, latest)
  end
end
