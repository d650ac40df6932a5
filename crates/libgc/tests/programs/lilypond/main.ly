% Pages of notes from Scheme, with much garbage in between.
\version "2.24.0"
\header { tagline = ##f }
#(define pitches '(c d e f g a b))
#(define (bar n)
   (make-music 'SequentialMusic 'elements
     (map (lambda (k)
            (make-music 'NoteEvent
              'duration (ly:make-duration 3)
              'pitch (ly:make-pitch (modulo (quotient (+ n k) 7) 2) (modulo (+ (* 3 n) k) 7))))
          (iota 8))))
#(define bars (make-music 'SequentialMusic 'elements (map bar (iota 120))))
\score { \new Staff { \time 4/4 #bars } }
