-- Put after common.lua: the stored matrices that a job needs as operands, from its submission to its end. Its hash has
--   needs  "<operand><how><id>" for each, parted by spaces; <how> is + for one that was stored for this job alone, else =
-- Matrices of other jobs join when these have succeeded. A job that failed or was cancelled needs none, but their owner
-- keeps them for the time to live of its own matrices, for a retry.
local NEED = '([%l_]+)([+=])(%S+)' -- a bias and scales are called so in full; older versions find their ids, too

-- The first operand that its owner does not have. `new`: by id, those that are stored in this step.
local function missing_operand(needs, owner, at, new)
  if needs == '' then
    return nil
  end
  for name, _, id in string.gmatch(needs, NEED) do
    if not new[id] and not live_claim(id, owner, at) then
      return name
    end
  end
  return nil
end

-- Matrices that were there before this step are kept for their full time again.
local function use_operands(needs, owner, at, ttl, new)
  if needs == '' then
    return
  end
  for _, _, id in string.gmatch(needs, NEED) do
    if not new[id] then
      use_matrix(id, owner, at, ttl)
    end
  end
end

-- `new`: by id, those that are stored in this step.
local function need_operands(job, needs, new)
  if needs ~= '' then
    job.needs = needs
    set(job, 'needs', needs)
    for _, _, id in string.gmatch(needs, NEED) do
      need_matrix(id, job.owner, job.id, new[id] and id)
    end
  end
end

-- Notes in `references` that a usual job refers to a matrix: by id, and in order, the owner's claim to it, and the members
-- of `needed` of these jobs; in `chunks` where the first chunk would be. False where that claim does not end after `at`, as
-- one that was given up.
local function refer(references, id, owner, job, at)
  local its = references[id]
  if not its then
    local claim, latest, data = unpack(call('HMGET', matrix_key(id), 'claim:' .. owner, 'until', 'data'))
    local made, ends = read_claim(claim)
    if not made or ends <= at then
      return false
    end
    its = {id = id, made = made, ends = ends, latest = latest, data = data, needed_by = {}}
    references[id], references[#references + 1] = its, its
    references.chunks[#references] = chunk_key(data, 0)
  end
  its.needed_by[#its.needed_by + 1] = owner .. ' ' .. job
  return true
end

local function needs_of(job)
  return job.needs or ''
end

-- The id of what a job that succeeded has stored: as product_id in jobs/models.py.
local function product_of(id, attempt)
  return 'c_' .. string.match(id, '_(.*)$') .. '_' .. attempt
end

-- The stored product of a job that succeeded has become its operand.
need_product = function(job, name, source)
  local id = product_of(source.id, source.attempt)
  if redis.call('HEXISTS', matrix_key(id), 'claim:' .. job.owner) == 1 then
    need_operands(job, needs_of(job) .. ' ' .. name .. '=' .. id, {})
  end
end

-- Elements in Redis whose matrix is off the books: they go by themselves where the worker ends before it removes them.
local function leave_chunks(id)
  local i = 0
  while call('PEXPIRE', chunk_key(id, i), CHUNK_GRACE_MS) == 1 do
    i = i + 1
  end
end

-- The job needs a matrix no more, which its owner does not keep beyond. Returns 1 where others need it, or have a claim;
-- else 0, and its elements may be removed.
local function drop_matrix(job, id, at)
  local owner, key = job.owner, matrix_key(id)
  call('ZREM', needed_key(id), owner .. ' ' .. job.id)
  if is_needed(id, owner) then
    give_up_claim(id, owner, at)
    return call('EXISTS', key)
  end
  local claim, bytes = unpack(call('HMGET', key, 'claim:' .. owner, 'bytes'))
  if claim and call('HLEN', key) == PLAIN_FIELDS + 1 then -- the usual case: no one else has one
    write('ZREM', claims, id .. ' ' .. owner)
    owe(owner, -charge_of(bytes))
    call('DEL', key, needed_key(id))
    leave_chunks(id)
    return 0
  end
  drop_claim(id, owner)
  books = {} -- for it changed them
  return call('EXISTS', key)
end

-- At its end. With `drop`, matrices that were stored for it go now; of these, how many stay because others need them.
release_operands = function(job, at, drop)
  local kept = 0
  if not job.needs then
    return kept
  end
  for _, how, id in string.gmatch(needs_of(job), NEED) do
    if drop and how == '+' then
      kept = kept + drop_matrix(job, id, at)
    else
      need_no_more(id, job.owner, job.id, at, drop and 0 or at + job.ttl, how == '+')
    end
  end
  return kept
end

-- Whether a job that succeeded left a matrix that was stored for it to others.
local function left_operands(job)
  for _, how, id in string.gmatch(needs_of(job), NEED) do
    if how == '+' and redis.call('EXISTS', matrix_key(id)) == 1 then
      return true
    end
  end
  return false
end
