#!lua flags=allow-oom
-- running → succeeded, for each (id, attempt, outcome, kernel, device, product, claim, measured): 1, 2 where jobs waited for its product,
-- and 4 more where operands that were stored for it must stay; or 0 where the attempt does not own the job. A worker
-- whose first try timed out on the way back asks again: the attempt that succeeded gets 1. `claim` is of a product in the
-- store that is to be claimed; 8, and nothing is changed, where there is no room for it.

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
  serve(job, kernel, at, measured)
  local end_of = {outcome = outcome, product = product}
  finish(job, 'succeeded', at, '', end_of)
  return (job.dependents and 2 or 1) + (end_of.operands_kept > 0 and 4 or 0)
end

-- The end of a product in its job's record, as most are: the same as `succeed`, straight on, for gathering what is written
-- costs a step of one job a third of its time. nil, and nothing is written, where it is another.
local function succeed_usual(at, id, attempt, outcome, kernel, device, product, claim, measured)
  local v = attempt == '1' and product ~= '' and kernel ~= '' and measured ~= '' and values_of(id, ENDS_BY)
  if not v or v[1] ~= 'running' or v[2] ~= '1' or v[3] ~= '2' or v[8] ~= 'ab' or v[13] or v[14] or v[15] or v[16] or v[17] or v[18] then
    return nil
  end
  local owner, key, all = v[4], job_key(id), 'products:' .. kernel
  local sums, ended = unpack(call('HMGET', counts, all, 'ended:succeeded'))
  local more, expires = #product - v[6], at + v[7]
  local counted = sums_with(sums, measured, at - v[12], v[11] - v[10]) -- what may fail does so before the first write
  local head = id .. ' succeeded 1 3 ' .. v[10] .. ' ' .. v[11] .. ' ' .. int(at) .. '  '
  charge('all', more)
  charge('of:' .. owner, more)
  call('HSET', matrices_key(id), 'c', product, 'a', '', 'b', '')
  call('HSET', key, 'held', #product, 'outcome', outcome, 'device', device, 'kernel', kernel, 'state', 'succeeded',
    'version', '3', 'finished', at)
  call('ZADD', prefix .. 'packed', expires, id)
  call('ZADD', prefix .. 'finished', at, id)
  call('ZADD', prefix .. 'finished:' .. owner, at, id)
  call('ZREM', leases, id)
  call('ZADD', state_key('succeeded', owner), v[5], id)
  call('HSET', counts, all, counted, 'ended:succeeded', (ended or 0) + 1)
  if v[9] then
    call('PUBLISH', prefix .. 'answers:' .. v[9], answer_of(head, outcome, '', product))
  end
  call('PUBLISH', prefix .. 'changes', id .. ' 3 succeeded')
  return {1}
end

local function main(ARGV)
  local most, at = tonumber(ARGV[2]), now()
  local usual = #ARGV == 10 and ARGV[9] == '' and succeed_usual(at, unpack(ARGV, 3, 10))
  if usual then
    return usual
  end
  local taken = {}
  for i = 3, #ARGV, 8 do
    taken[#taken + 1] = succeed(most, at, unpack(ARGV, i, i + 7))
  end
  keep_served()
  carry_out()
  return taken
end

return main(ARGV)
