#!lua flags=allow-oom
-- running → succeeded, for each (id, attempt, outcome, kernel, device, product, claim, measured): 1, 2 where jobs waited for its product,
-- and 4 more where operands that were stored for it must stay; or 0 where the attempt does not own the job. A worker
-- whose first try timed out on the way back asks again: the attempt that succeeded gets 1. `claim` is of a product in the
-- store that is to be claimed; 8, and nothing is changed, where there is no room for it.

-- `unchanging` of a job: + or & where its operands are stored for it or before it, created, what these are, owner, seq, held,
-- ttl, reply_to.
local TO_END = '^([+&]?)(%d+)([^\n]*)\n%d+\n([^\n]+)\n[^\n]+\n[^\n]+\n(%d+)\n(%d+)\n(%d+)\n([^\n]*)'
local OPERANDS = ' (%d+) (%S+) (%S+)' -- what both are charged, and their ids
local REFERENCES = ' (%S+) (%S+)' -- their ids
local CLAIM = '(%S+) (%S+) (%S+) (%S+) (%S+)' -- element type, shape, bytes, the owner's bound, time to live

local ONE_TAKEN = {1}

-- What is to be claimed; nil where there is no room for it.
local function with_room(owner, claim, max_bytes)
  local dtype, shape, bytes, max_owner_bytes, ttl = string.match(claim, CLAIM)
  if owe_within(owner, charge_of(bytes), tonumber(max_bytes), tonumber(max_owner_bytes)) then
    return nil
  end
  return dtype, shape, bytes, ttl
end

-- Whether there is room for it.
local function claim_product(job, claim, max_bytes, at)
  local dtype, shape, bytes, ttl = with_room(job.owner, claim, max_bytes)
  if not dtype then
    return false
  end
  local name, ends = product_of(job.id, job.attempt), int(at + ttl)
  new_matrix(name, job.owner, dtype, shape, bytes, int(at), ends)
  call('ZADD', claims, ends, name .. ' ' .. job.owner)
  return true
end

local function succeed(max_bytes, at, id, attempt, outcome, kernel, device, product, claim, measured)
  local job = read(id, ENDS_BY)
  if job and job.state == 'succeeded' and job.attempt == attempt then
    return left_operands(job) and 5 or 1
  elseif not job or job.state ~= 'running' or job.attempt ~= attempt then
    return 0
  elseif claim ~= '' and not claim_product(job, claim, max_bytes, at) then
    return 8
  end
  -- The operands go, and the product comes: in one call where there are both.
  if product ~= '' then
    if job.in_record == 'ab' then -- the usual case
      write('HSET', matrices_key(id), 'c', product, 'a', '', 'b', '')
    else
      write('HSET', matrices_key(id), 'c', product)
      for operand in string.gmatch(job.in_record, '%l') do
        write('HSET', matrices_key(id), FIELD[operand], '')
      end
    end
  elseif job.in_record ~= '' then
    write('DEL', matrices_key(id))
  end
  hold(job, #product)
  if kernel ~= '' then
    set(job, 'outcome', outcome, 'device', device, 'kernel', kernel)
  else -- a benchmark runs many
    set(job, 'outcome', outcome, 'device', device)
  end
  serve(kernel, at - job.created, job.started - job.queued, measured)
  local end_of = {outcome = outcome, product = product}
  finish(job, 'succeeded', at, '', end_of)
  return (job.dependents and 2 or 1) + (end_of.operands_kept > 0 and 4 or 0)
end

-- created, owner, seq, held, ttl, reply_to and start of a job that may end straight on; how its operands are stored, if they
-- are, and which: its first attempt runs, and nobody waits for anything but its answer.
local function usual_job(ARGV, i)
  local id, attempt, _, kernel, _, product, claim, measured = unpack(ARGV, i, i + 7)
  if attempt ~= '1' or kernel ~= ARGV[6] or kernel == '' or (product == '') == (claim == '') or measured == '' then
    return nil
  end
  local state, version, started, dependents, unchanging =
    unpack(call('HMGET', job_key(id), 'state', 'version', 'started', 'dependents', 'unchanging'))
  if not unchanging or state ~= 'running' or version ~= '2' or dependents then
    return nil
  end
  local how, created, stored, owner, seq, held, ttl, reply_to = string.match(unchanging, TO_END)
  if created and (how == '&' or (how == '') == (claim == '')) and (claim == '' or held == '0') then
    return created, owner, seq, held, ttl, reply_to, started, how, stored
  end
  return nil
end

-- Whether no other job needs a matrix, and no other owner has a claim to it.
local function is_its_alone(id, needed_by)
  local first, second = unpack(call('ZRANGE', needed_key(id), 0, 1))
  return first == needed_by and not second and call('HLEN', matrix_key(id)) == PLAIN_FIELDS + 1
end

-- In the books a product is to take the place of the operands that were stored for its job, if any were: what is claimed,
-- and these. nil where one of them is another's as well, or where there is no room beside them.
local function exchange(id, owner, how, stored, claim, max_bytes)
  if how == '&' then
    return with_room(owner, claim, max_bytes)
  end
  local bytes, a, b = string.match(stored, OPERANDS)
  local needed_by = owner .. ' ' .. id
  if not (is_its_alone(a, needed_by) and is_its_alone(b, needed_by)) then
    return nil
  end
  local dtype, shape, product_bytes, ttl = with_room(owner, claim, max_bytes)
  if not dtype then
    return nil
  end
  owe(owner, -bytes)
  return dtype, shape, product_bytes, ttl, a, b
end

-- Carries that out, but for the bytes; the member of `claims` that comes, after its time, and those that go. Without
-- operands nothing goes.
local function carry_over(id, owner, at, dtype, shape, bytes, ttl, a, b)
  local product, ends = product_of(id, '1'), int(at + ttl)
  new_matrix(product, owner, dtype, shape, bytes, at, ends)
  if not a then
    return ends, product .. ' ' .. owner
  end
  call('DEL', matrix_key(a), needed_key(a), matrix_key(b), needed_key(b))
  if call('EXISTS', chunk_key(a, 0), chunk_key(b, 0)) > 0 then
    leave_chunks(a)
    leave_chunks(b)
  end
  return ends, product .. ' ' .. owner, a .. ' ' .. owner, b .. ' ' .. owner
end

-- Notes the matrices that a job refers to; false where their owner has given one up, so that it may have to go.
local function refer_to(references, stored, owner, id)
  local a, b = string.match(stored, REFERENCES)
  return refer(references, a, owner, id, 0) and refer(references, b, owner, id, 0)
end

-- The jobs that refer to these need them no more.
local function leave_references(references)
  local in_chunks = call('EXISTS', unpack(references.chunks)) > 0
  for i = 1, #references do
    local its = references[i]
    if call('ZREM', needed_key(its.id), unpack(its.needed_by)) > 0 and in_chunks then
      time_chunks(its.id, its.data)
    end
  end
end

-- After those, of one owner.
local function keep_bytes(charged)
  call('HSET', bytes_kept, 'all', books.all + owed.all, charged, books[charged] + owed[charged])
end

-- Writes the end of a usual job, except what is one command for several. `how`: its operands are stored.
local function end_one(id, outcome, device, kernel, product, at, how)
  if product == '' then
    call('HSET', job_key(id), 'outcome', outcome, 'device', device, 'kernel', kernel, 'state', 'succeeded', 'version', '3',
      'finished', at)
    return
  end
  if how == '' then
    call('HSET', matrices_key(id), 'c', product, 'a', '', 'b', '')
  else
    call('HSET', matrices_key(id), 'c', product)
  end
  call('HSET', job_key(id), 'held', #product, 'outcome', outcome, 'device', device, 'kernel', kernel, 'state', 'succeeded',
    'version', '3', 'finished', at)
end

local function answer_to(id, outcome, product, created, started, at)
  return answer_of(id .. ' succeeded 1 3 ' .. created .. ' ' .. started .. ' ' .. at .. '  ', outcome, '', product)
end

-- `succeed_several` of one job, without tables.
local function succeed_one(ARGV, at)
  local id, _, outcome, kernel, device, product, claim, measured = unpack(ARGV, 3, 10)
  local created, owner, seq, held, ttl, reply_to, started, how, stored = usual_job(ARGV, 3)
  local references = how == '&' and {chunks = {}} or nil
  if not created or (references and not refer_to(references, stored, owner, id)) then
    return nil
  end
  known, served, launched = {}, {}, {}
  local dtype, shape, bytes, product_ttl, a, b
  if claim ~= '' then
    books, owed = {}, {}
    dtype, shape, bytes, product_ttl, a, b = exchange(id, owner, how, stored, claim, ARGV[2])
    if not dtype then
      return nil
    end
  end
  local then_at, now_at = tonumber(created), tonumber(at)
  serve(kernel, now_at - then_at, started - then_at, measured)
  local names = owner_names(owner)
  end_one(id, outcome, device, kernel, product, at, how)
  if dtype then
    local ends, of_product, of_a, of_b = carry_over(id, owner, at, dtype, shape, bytes, product_ttl, a, b)
    if of_a then
      call('ZREM', claims, of_a, of_b)
    end
    call('ZADD', claims, ends, of_product)
    keep_bytes(names.charged)
  else
    charge('all', #product - held)
    charge(names.charged, #product - held)
    call('ZADD', packed_key, now_at + ttl, id)
  end
  if references then
    leave_references(references)
  end
  call('ZADD', finished_key, at, id)
  call('ZADD', names.finished, at, id)
  call('ZADD', names.succeeded, seq, id)
  call('ZREM', leases, id)
  call('HSET', counts, 'products:' .. kernel, served_of(kernel), 'ended:succeeded', known['ended:succeeded'] + 1)
  if reply_to ~= '' then
    call('PUBLISH', prefix .. 'answers:' .. reply_to, answer_to(id, outcome, product, created, started, at))
  end
  call('PUBLISH', changes_channel, id .. ' 3 succeeded')
  return ONE_TAKEN
end

-- `succeed` for usual jobs (common.lua) of one owner and kernel, with products in their records or in the store. Writes
-- nothing and returns nil if one of them is not usual.
local function succeed_several(ARGV, at)
  local ended, exchanged, jobs, more, kernel = {false}, {}, 0, 0, ARGV[6] -- a table that has its size at once is cheaper
  local seen, references, is_claimed = {}, {chunks = {}}, ARGV[9] ~= ''
  known, served, launched, books, owed = {}, {}, {}, {}, {}
  for i = 3, #ARGV, 8 do
    local id, claim, job = ARGV[i], ARGV[i + 6], {usual_job(ARGV, i)}
    local owner, how, stored = job[2], job[8], job[9]
    if not owner or seen[id] or (claim ~= '') ~= is_claimed
      or (jobs > 0 and (owner ~= ended[1][2] or how ~= ended[1][8])) then
      return nil
    end
    jobs, more, seen[id] = jobs + 1, more + #ARGV[i + 5] - job[4], true
    ended[jobs] = job
    if how == '&' and not refer_to(references, stored, owner, id) then
      return nil
    end
    if is_claimed then
      exchanged[jobs] = {exchange(id, owner, how, stored, claim, ARGV[2])}
      if not exchanged[jobs][1] then
        return nil
      end
    end
  end
  for i = 1, jobs do -- what may fail does so before the first write
    local job = ended[i]
    serve(kernel, at - job[1], job[7] - job[1], ARGV[8 * i + 2])
  end
  local owner, first_reply_to, how = ended[1][2], ended[1][6], ended[1][8]
  local ids, taken, changes, answers = {false}, {false}, {false}, {}
  local packed, finished, listed, going, coming = {false, false}, {false, false}, {false, false}, {}, {}
  for i = 1, jobs do
    local id, _, outcome, _, device, product = unpack(ARGV, 8 * i - 5, 8 * i)
    local created, _, seq, _, ttl, reply_to, started = unpack(ended[i])
    end_one(id, outcome, device, kernel, product, at, how)
    local place = 2 * i - 1
    ids[i], taken[i], packed[place], packed[place + 1] = id, 1, at + ttl, id
    finished[place], finished[place + 1], listed[place], listed[place + 1] = at, id, seq, id
    changes[i] = id .. ' 3 succeeded'
    if exchanged[i] then
      coming[place], coming[place + 1], going[place], going[place + 1] = carry_over(id, owner, at, unpack(exchanged[i]))
    end
    if reply_to ~= '' then
      local its = answer_to(id, outcome, product, created, started, at)
      if reply_to == first_reply_to then
        answers[#answers + 1] = its
      else
        call('PUBLISH', prefix .. 'answers:' .. reply_to, its)
      end
    end
  end
  if is_claimed then
    if how == '+' then
      call('ZREM', claims, unpack(going))
    end
    call('ZADD', claims, unpack(coming))
    keep_bytes('of:' .. owner)
  else
    charge('all', more)
    charge('of:' .. owner, more)
    call('ZADD', packed_key, unpack(packed))
  end
  if references[1] then
    leave_references(references)
  end
  call('ZADD', finished_key, unpack(finished))
  call('ZADD', prefix .. 'finished:' .. owner, unpack(finished))
  call('ZADD', state_key('succeeded', owner), unpack(listed))
  call('ZREM', leases, unpack(ids))
  call('HSET', counts, 'products:' .. kernel, served_of(kernel), 'ended:succeeded', known['ended:succeeded'] + jobs)
  if first_reply_to ~= '' then
    call('PUBLISH', prefix .. 'answers:' .. first_reply_to, table.concat(answers))
  end
  call('PUBLISH', changes_channel, table.concat(changes, '\n'))
  return taken
end

local function main(ARGV)
  local max_bytes, at = tonumber(ARGV[2]), now_in_full()
  local ended = (#ARGV == 10 and succeed_one or succeed_several)(ARGV, at)
  if ended then
    return ended
  end
  gather()
  local taken, seen = {}, {}
  at = tonumber(at)
  for i = 3, #ARGV, 8 do
    if seen[ARGV[i]] then
      carry_out() -- its end, which is read then
    end
    seen[ARGV[i]] = true
    taken[#taken + 1] = succeed(max_bytes, at, unpack(ARGV, i, i + 7))
  end
  keep_served()
  carry_out()
  return taken
end

return main(ARGV)
