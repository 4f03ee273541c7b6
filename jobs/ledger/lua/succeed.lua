#!lua flags=allow-oom
-- running → succeeded, for each (id, attempt, outcome, kernel, device, product, claim, measured): 1, 2 where jobs waited for its product,
-- and 4 more where operands that were stored for it must stay; or 0 where the attempt does not own the job. A worker
-- whose first try timed out on the way back asks again: the attempt that succeeded gets 1. `claim` is of a product in the
-- store that is to be claimed; 8, and nothing is changed, where there is no room for it.

-- `unchanging` of a job: created, what its operands are where they are stored, owner, seq, held, ttl, reply_to.
local TO_END = '^%+?(%d+)([^\n]*)\n%d+\n([^\n]+)\n[^\n]+\n[^\n]+\n(%d+)\n(%d+)\n(%d+)\n([^\n]*)'
local OPERANDS = ' (%d+) (%S+) (%S+)' -- what both are charged, and their ids
local CLAIM = '(%S+) (%S+) (%S+) (%S+) (%S+)' -- element type, shape, bytes, the owner's bound, time to live

local ONE_TAKEN = {1}

-- Whether there is room for it.
local function claim_product(job, claim, max_bytes, at)
  local dtype, shape, bytes, max_owner_bytes, ttl = string.match(claim, CLAIM)
  if owe_within(job.owner, charge_of(bytes), max_bytes, tonumber(max_owner_bytes)) then
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

-- created, owner, seq, held, ttl, reply_to and start of a job that may end straight on, and what its operands are where they
-- are stored: its first attempt runs, and nobody waits for anything but its answer.
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
  local created, stored, owner, seq, held, ttl, reply_to = string.match(unchanging, TO_END)
  if created and (stored == '') == (claim == '') then
    return created, owner, seq, held, ttl, reply_to, started, stored
  end
  return nil
end

-- Whether no other job needs a matrix, and no other owner has a claim to it.
local function is_its_alone(id, needed_by)
  local first, second = unpack(call('ZRANGE', needed_key(id), 0, 1))
  return first == needed_by and not second and call('HLEN', matrix_key(id)) == PLAIN_FIELDS + 1
end

-- In the books a product is to take the place of the operands that were stored for its job: these, and what is claimed. nil
-- where one of them is another's as well, or where there is no room beside them.
local function exchange(id, owner, stored, claim, max_bytes)
  local bytes, a, b = string.match(stored, OPERANDS)
  local needed_by = owner .. ' ' .. id
  if not (is_its_alone(a, needed_by) and is_its_alone(b, needed_by)) then
    return nil
  end
  local dtype, shape, product_bytes, max_owner_bytes, ttl = string.match(claim, CLAIM)
  if owe_within(owner, charge_of(product_bytes), tonumber(max_bytes), tonumber(max_owner_bytes)) then
    return nil
  end
  owe(owner, -bytes)
  return a, b, dtype, shape, product_bytes, ttl
end

-- Carries that out, but for the bytes; the members of `claims` that go, and the one that comes, after its time.
local function carry_over(id, owner, at, a, b, dtype, shape, bytes, ttl)
  local product, ends = product_of(id, '1'), int(at + ttl)
  call('DEL', matrix_key(a), needed_key(a), matrix_key(b), needed_key(b))
  new_matrix(product, owner, dtype, shape, bytes, at, ends)
  return a .. ' ' .. owner, b .. ' ' .. owner, ends, product .. ' ' .. owner
end

-- After those, of one owner.
local function keep_bytes(charged)
  call('HSET', bytes_kept, 'all', books.all + owed.all, charged, books[charged] + owed[charged])
end

-- Writes the end of a usual job, except what is one command for several.
local function end_one(id, outcome, device, kernel, product, at)
  if product == '' then
    call('HSET', job_key(id), 'outcome', outcome, 'device', device, 'kernel', kernel, 'state', 'succeeded', 'version', '3',
      'finished', at)
    return
  end
  call('HSET', matrices_key(id), 'c', product, 'a', '', 'b', '')
  call('HSET', job_key(id), 'held', #product, 'outcome', outcome, 'device', device, 'kernel', kernel, 'state', 'succeeded',
    'version', '3', 'finished', at)
end

local function answer_to(id, outcome, product, created, started, at)
  return answer_of(id .. ' succeeded 1 3 ' .. created .. ' ' .. started .. ' ' .. at .. '  ', outcome, '', product)
end

-- `succeed_several` of one job, without tables.
local function succeed_one(ARGV, at)
  local id, _, outcome, kernel, device, product, claim, measured = unpack(ARGV, 3, 10)
  local created, owner, seq, held, ttl, reply_to, started, stored = usual_job(ARGV, 3)
  if not created then
    return nil
  end
  known, served, launched = {}, {}, {}
  local a, b, dtype, shape, bytes, product_ttl
  if stored ~= '' then
    books, owed = {}, {}
    a, b, dtype, shape, bytes, product_ttl = exchange(id, owner, stored, claim, ARGV[2])
    if not a then
      return nil
    end
  end
  local then_at, now_at = tonumber(created), tonumber(at)
  serve(kernel, now_at - then_at, started - then_at, measured)
  local names = owner_names(owner)
  end_one(id, outcome, device, kernel, product, at)
  if a then
    local of_a, of_b, ends, of_product = carry_over(id, owner, at, a, b, dtype, shape, bytes, product_ttl)
    call('ZREM', claims, of_a, of_b)
    call('ZADD', claims, ends, of_product)
    keep_bytes(names.charged)
  else
    charge('all', #product - held)
    charge(names.charged, #product - held)
    call('ZADD', packed_key, now_at + ttl, id)
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
  local seen = {}
  known, served, launched, books, owed = {}, {}, {}, {}, {}
  for i = 3, #ARGV, 8 do
    local id, job = ARGV[i], {usual_job(ARGV, i)}
    if not job[1] or seen[id] or (jobs > 0 and (job[2] ~= ended[1][2] or (job[8] == '') ~= (ended[1][8] == ''))) then
      return nil
    end
    jobs, more, seen[id] = jobs + 1, more + #ARGV[i + 5] - job[4], true
    ended[jobs] = job
    if job[8] ~= '' then
      exchanged[jobs] = {exchange(id, job[2], job[8], ARGV[i + 6], ARGV[2])}
      if not exchanged[jobs][1] then
        return nil
      end
    end
  end
  for i = 1, jobs do -- what may fail does so before the first write
    local job = ended[i]
    serve(kernel, at - job[1], job[7] - job[1], ARGV[8 * i + 2])
  end
  local owner, first_reply_to = ended[1][2], ended[1][6]
  local ids, taken, changes, answers = {false}, {false}, {false}, {}
  local packed, finished, listed, going, coming = {false, false}, {false, false}, {false, false}, {}, {}
  for i = 1, jobs do
    local id, _, outcome, _, device, product = unpack(ARGV, 8 * i - 5, 8 * i)
    local created, _, seq, _, ttl, reply_to, started = unpack(ended[i])
    end_one(id, outcome, device, kernel, product, at)
    local place = 2 * i - 1
    ids[i], taken[i], packed[place], packed[place + 1] = id, 1, at + ttl, id
    finished[place], finished[place + 1], listed[place], listed[place + 1] = at, id, seq, id
    changes[i] = id .. ' 3 succeeded'
    if exchanged[i] then
      going[place], going[place + 1], coming[place], coming[place + 1] = carry_over(id, owner, at, unpack(exchanged[i]))
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
  if exchanged[1] then
    call('ZREM', claims, unpack(going))
    call('ZADD', claims, unpack(coming))
    keep_bytes('of:' .. owner)
  else
    charge('all', more)
    charge('of:' .. owner, more)
    call('ZADD', packed_key, unpack(packed))
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
  local taken = {}
  at = tonumber(at)
  for i = 3, #ARGV, 8 do
    taken[#taken + 1] = succeed(max_bytes, at, unpack(ARGV, i, i + 7))
  end
  keep_served()
  carry_out()
  return taken
end

return main(ARGV)
