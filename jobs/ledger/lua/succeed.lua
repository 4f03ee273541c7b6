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

local function main(ARGV)
  local most, at = tonumber(ARGV[2]), now()
  local taken = {}
  for i = 3, #ARGV, 8 do
    taken[#taken + 1] = succeed(most, at, unpack(ARGV, i, i + 7))
  end
  keep_served()
  carry_out()
  return taken
end

return main(ARGV)
