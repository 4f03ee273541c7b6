#!lua flags=allow-oom
-- running → succeeded, for each (id, attempt, outcome, kernel, device, product, stored): 1, 2 where jobs waited for its
-- product, or 0 where the attempt does not own the job. A worker whose first try timed out on the way back asks again: the
-- attempt that succeeded gets 1.
local at = now()

-- `stored`: ids of the operands that were stored for this job alone.
local function succeed(id, attempt, outcome, kernel, device, product, stored)
  local job = read(id)
  if job and job.state == 'succeeded' and job.attempt == attempt then
    return 1
  elseif not job or job.state ~= 'running' or job.attempt ~= attempt then
    return 0
  end
  -- The operands go, and the product comes: in one call where there are both.
  if product ~= '' then
    write('HSET', matrices_key(id), 'c', product)
    for operand in string.gmatch(job.in_record, '%l') do
      write('HSET', matrices_key(id), FIELD[operand], '')
    end
  elseif job.in_record ~= '' then
    write('DEL', matrices_key(id))
  end
  for matrix in string.gmatch(stored, '%S+') do
    drop_claim(matrix, job.owner)
  end
  hold(job, #product)
  set(job, 'outcome', outcome, 'device', device)
  if kernel ~= '' then -- a benchmark runs many
    set(job, 'kernel', kernel)
  end
  finish(job, 'succeeded', at, '', {outcome = outcome, product = product})
  return job.dependents and 2 or 1
end

local taken = {}
for i = 2, #ARGV, 7 do
  taken[#taken + 1] = succeed(unpack(ARGV, i, i + 6))
end
carry_out()
return taken
