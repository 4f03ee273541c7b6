#!lua flags=allow-oom
-- running → succeeded, for each (id, attempt, outcome, kernel, device, product, claim, measured): 1, 2 where jobs waited for its product,
-- and 4 more where operands that were stored for it must stay; or 0 where the attempt does not own the job. A worker
-- whose first try timed out on the way back asks again: the attempt that succeeded gets 1. `claim` is of a product in the
-- store that is to be claimed; 8, and nothing is changed, where there is no room for it.

-- `unchanging` of a job: created, owner, seq, held, ttl, reply_to.
local TO_END = '^(%d+)\n%d+\n([^\n]+)\n[^\n]+\n[^\n]+\n(%d+)\n(%d+)\n(%d+)\n([^\n]*)'

local ONE_TAKEN = {1}

-- Whether there is room for it.
local function claim_product(job, claim, most, at)
  local dtype, shape, bytes, most_of_owner, ttl = string.match(claim, '(%S+) (%S+) (%S+) (%S+) (%S+)')
  if owe_within(job.owner, charge_of(bytes), most, tonumber(most_of_owner)) then
    return false
  end
  local name = product_of(job)
  new_matrix(call, name, job.owner, dtype, shape, bytes, name, at, at + ttl)
  return true
end

local function succeed(most, at, id, attempt, outcome, kernel, device, product, claim, measured)
  local job = read(id, ENDS_BY)
  if job and job.state == 'succeeded' and job.attempt == attempt then
    return left_operands(job) and 5 or 1
  elseif not job or job.state ~= 'running' or job.attempt ~= attempt then
    return 0
  elseif claim ~= '' and not claim_product(job, claim, most, at) then
    return 8
  end
  -- The operands go, and the product comes: in one call where there are both.
  if product ~= '' then
    if job.in_record == 'ab' then -- as most have it
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

-- created, seq, held, ttl, owner, reply_to and start of a job that may end straight on: its first attempt runs, and nobody
-- waits for anything but its answer.
local function usual_job(ARGV, i)
  local id, attempt, _, kernel, _, product, claim, measured = unpack(ARGV, i, i + 7)
  if attempt ~= '1' or kernel ~= ARGV[6] or kernel == '' or product == '' or claim ~= '' or measured == '' then
    return nil
  end
  local state, version, started, dependents, unchanging =
    unpack(call('HMGET', job_key(id), 'state', 'version', 'started', 'dependents', 'unchanging'))
  if not unchanging or state ~= 'running' or version ~= '2' or dependents then
    return nil
  end
  local created, owner, seq, held, ttl, reply_to = string.match(unchanging, TO_END)
  return created, owner, seq, held, ttl, reply_to, started
end

-- Writes the end of a job as most are, but for what is one command for several. `job`: as `usual_job` has it.
local function end_one(id, outcome, device, kernel, product, at)
  call('HSET', matrices_key(id), 'c', product, 'a', '', 'b', '')
  call('HSET', job_key(id), 'held', #product, 'outcome', outcome, 'device', device, 'kernel', kernel, 'state', 'succeeded',
    'version', '3', 'finished', at)
end

local function answer_to(id, outcome, product, created, started, at)
  return answer_of(id .. ' succeeded 1 3 ' .. created .. ' ' .. started .. ' ' .. at .. '  ', outcome, '', product)
end

-- `succeed_usual` of one job, without tables.
local function succeed_one(ARGV, at)
  local id, _, outcome, kernel, device, product, _, measured = unpack(ARGV, 3, 10)
  local created, owner, seq, held, ttl, reply_to, started = usual_job(ARGV, 3)
  if not created then
    return nil
  end
  known, served, launched = {}, {}, {}
  local then_at, now_at = tonumber(created), tonumber(at)
  serve(kernel, now_at - then_at, started - then_at, measured)
  local names = owner_names(owner)
  end_one(id, outcome, device, kernel, product, at)
  charge('all', #product - held)
  charge(names.charged, #product - held)
  call('ZADD', packed_key, now_at + ttl, id)
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

-- The end of products of one owner and kernel in their jobs' records, as most are: the same as `succeed` for each, straight
-- on, for gathering what is written costs a third of a small job's time. nil, and nothing is written, where one is another.
local function succeed_usual(ARGV, at)
  local ended, jobs, more, kernel = {false}, 0, 0, ARGV[6] -- a table that has its size at once is cheaper
  local seen = #ARGV > 10 and {}
  for i = 3, #ARGV, 8 do
    local job = {usual_job(ARGV, i)}
    if not job[1] or (jobs > 0 and job[2] ~= ended[1][2]) or (seen and seen[ARGV[i]]) then
      return nil
    elseif seen then
      seen[ARGV[i]] = true
    end
    jobs, more = jobs + 1, more + #ARGV[i + 5] - job[4]
    ended[jobs] = job
  end
  known, served, launched = {}, {}, {}
  for i = 1, jobs do -- what may fail does so before the first write
    local job = ended[i]
    serve(kernel, at - job[1], job[7] - job[1], ARGV[8 * i + 2])
  end
  local owner, first_reply_to = ended[1][2], ended[1][6]
  local ids, taken, changes, answers = {false}, {false}, {false}, {}
  local packed, finished, listed = {false, false}, {false, false}, {false, false}
  for i = 1, jobs do
    local id, _, outcome, _, device, product = unpack(ARGV, 8 * i - 5, 8 * i)
    local created, _, seq, _, ttl, reply_to, started = unpack(ended[i])
    end_one(id, outcome, device, kernel, product, at)
    local place = 2 * i - 1
    ids[i], taken[i], packed[place], packed[place + 1] = id, 1, at + ttl, id
    finished[place], finished[place + 1], listed[place], listed[place + 1] = at, id, seq, id
    changes[i] = id .. ' 3 succeeded'
    if reply_to ~= '' then
      local its = answer_to(id, outcome, product, created, started, at)
      if reply_to == first_reply_to then
        answers[#answers + 1] = its
      else
        call('PUBLISH', prefix .. 'answers:' .. reply_to, its)
      end
    end
  end
  charge('all', more)
  charge('of:' .. owner, more)
  call('ZADD', packed_key, unpack(packed))
  call('ZADD', finished_key, unpack(finished))
  call('ZADD', prefix .. 'finished:' .. owner, unpack(finished))
  call('ZADD', state_key('succeeded', owner), unpack(listed))
  call('ZREM', leases, unpack(ids))
  call('HSET', counts, 'products:' .. kernel, served_of(kernel), 'ended:succeeded', known['ended:succeeded'] + jobs)
  if first_reply_to ~= '' then
    call('PUBLISH', prefix .. 'answers:' .. first_reply_to, jobs == 1 and answers[1] or table.concat(answers))
  end
  call('PUBLISH', changes_channel, jobs == 1 and changes[1] or table.concat(changes, '\n'))
  return taken
end

local function main(ARGV)
  local most, at = tonumber(ARGV[2]), now_in_full()
  local ended = (#ARGV == 10 and succeed_one or succeed_usual)(ARGV, at)
  if ended then
    return ended
  end
  gather()
  local taken = {}
  at = tonumber(at)
  for i = 3, #ARGV, 8 do
    taken[#taken + 1] = succeed(most, at, unpack(ARGV, i, i + 7))
  end
  keep_served()
  carry_out()
  return taken
end

return main(ARGV)
