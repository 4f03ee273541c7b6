-- What products took, all together: counted in the step that ends them, and never falling (jobs/ledger/totals.py).
-- In `counts`, products:<kernel>, by kernel that ran: how many, of how many launches, microseconds of them all together in
-- all and in the queue, and nanoseconds of copies to the device, of the kernel and of copies back.
local served, launched = {}, {} -- what this step adds; what was measured of launches that made several products
local FIGURES, KEPT = '(%-?%d+) (%d+) (%-?%d+) (%-?%d+) (%d+) (%d+) (%d+)', '%d %d %d %d %d %d %d'

-- The last sums that were written out, and the numbers: reading these is spared where they are still the same.
local last_text, last_sum

-- Reads what is counted of a kernel, with `ended`, which counts jobs in the same step.
local function read_served(kernel, ended)
  local field = 'products:' .. kernel
  local sums, so_far = unpack(call('HMGET', counts, field, ended))
  known[ended] = known[ended] or tonumber(so_far or 0)
  local sum = sums and sums == last_text and last_sum or {string.match(sums or '0 0 0 0 0 0 0', FIGURES)}
  last_text, served[kernel] = nil, sum -- these numbers change now
  return sum
end

-- A product that succeeds, after so many microseconds in all and in the queue. `measured`: nanoseconds of the copy to the
-- device, of the kernel and of the copy back, and how many products the launch made; nothing for a benchmark, which has no
-- measured product.
local function serve(kernel, took, waited, measured)
  if measured == '' then
    return
  end
  local h2d, own, d2h, batch = string.match(measured, '(%S+) (%S+) (%S+) (%S+)')
  local sum = served[kernel] or read_served(kernel, 'ended:succeeded')
  if batch == '1' then
    sum[2] = sum[2] + 1
  elseif not launched[measured] then
    launched[measured], sum[2] = true, sum[2] + 1
  end
  sum[1], sum[3], sum[4] = sum[1] + 1, sum[3] + math.max(0, took), sum[4] + math.max(0, waited)
  sum[5], sum[6], sum[7] = sum[5] + h2d, sum[6] + own, sum[7] + d2h
end

local function served_of(kernel)
  last_sum = served[kernel]
  last_text = string.format(KEPT, unpack(last_sum))
  return last_text
end

local function keep_served()
  for kernel in pairs(served) do
    write('HSET', counts, 'products:' .. kernel, served_of(kernel))
  end
end
